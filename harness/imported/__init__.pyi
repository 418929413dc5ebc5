from .damage import (
    Damage as Damage,
)
from .damage import (
    HumanTexts as HumanTexts,
)
from .damage import (
    damage_texts as damage_texts,
)
from .damage import (
    digest_source as digest_source,
)
from .damage import (
    is_built_in_system as is_built_in_system,
)
from .damage import (
    list_damages as list_damages,
)
from .damage import (
    parse_damage as parse_damage,
)
from .files import (
    HUMAN_TEXTS as HUMAN_TEXTS,
)
from .files import (
    TEXTS as TEXTS,
)
from .files import (
    choose_text_field as choose_text_field,
)
from .files import (
    detect_kind as detect_kind,
)
from .files import (
    digest_files as digest_files,
)
from .files import (
    find_text_field as find_text_field,
)
from .files import (
    read_records as read_records,
)
from .formats import (
    GROVER_FIELDS as GROVER_FIELDS,
)
from .formats import (
    read_generations as read_generations,
)
from .formats import (
    recognize_format as recognize_format,
)
from .formats import (
    split_member as split_member,
)
from .framework_outputs import (
    OUTPUT_TITLES as OUTPUT_TITLES,
)
from .hub_download import (
    download_if_on_hub as download_if_on_hub,
)
from .naive import (
    NaiveSystem as NaiveSystem,
)
from .naive import (
    NaiveTexts as NaiveTexts,
)
from .naive import (
    parse_naive_system as parse_naive_system,
)
from .pairing import (
    import_rows as import_rows,
)
from .pairing import (
    import_texts as import_texts,
)
from .sources import (
    compute_fingerprint as compute_fingerprint,
)
from .unpaired import (
    import_unpaired as import_unpaired,
)
