from .audit import (
    Audit as Audit,
    EngineTexts as EngineTexts,
    audit_run as audit_run,
    audit_texts as audit_texts,
    compare_runs as compare_runs,
    read_strings as read_strings,
)
from .checks import Finding as Finding
