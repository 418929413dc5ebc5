from .build import (
    Report as Report,
    build_report as build_report,
    make_tables as make_tables,
    write_table as write_table,
)
from .figures.drawing import (
    save as save,
    styled as styled,
)
from .figures.search import (
    search_figures as search_figures,
)
from .tables.formats.console import (
    WIDTH as WIDTH,
    make_console as make_console,
    print_table as print_table,
)
from .tables.search import (
    search_tables as search_tables,
)
from .tables.table import (
    Table as Table,
)
