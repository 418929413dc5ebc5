from .build import (
    Report as Report,
)
from .build import (
    build_report as build_report,
)
from .build import (
    make_tables as make_tables,
)
from .build import (
    write_table as write_table,
)
from .exports.formats import (
    FORMATS as FORMATS,
)
from .exports.formats import (
    export_results as export_results,
)
from .exports.hub_folder import (
    upload_folder as upload_folder,
)
from .exports.hub_folder import (
    write_hub_folder as write_hub_folder,
)
from .figures.drawing import (
    apply_style as apply_style,
)
from .figures.drawing import (
    save as save,
)
from .figures.search_panels import (
    search_figures as search_figures,
)
from .tables.formats.console import (
    WIDTH as WIDTH,
)
from .tables.formats.console import (
    make_console as make_console,
)
from .tables.formats.console import (
    print_table as print_table,
)
from .tables.search_trials import (
    build_search_tables as build_search_tables,
)
from .tables.table import (
    Table as Table,
)
from .trackers.track import (
    TrackerOptions as TrackerOptions,
)
from .trackers.track import (
    build_tracker_options as build_tracker_options,
)
from .trackers.track import (
    require_tracker as require_tracker,
)
from .trackers.track import (
    track_report as track_report,
)
from .trackers.track import (
    track_runs as track_runs,
)
