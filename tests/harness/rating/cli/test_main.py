"""`openended rate` before a command has started."""

from __future__ import annotations

from openended.harness.rating.cli import main


def test_ctrl_c_while_a_command_is_loading_is_one_line(monkeypatch, capsys):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(main.importlib, "import_module", interrupt)
    assert main.main(["serve", "study"]) == 130
    assert capsys.readouterr().err == "\nopenended rate serve: interrupted; nothing was started\n"
