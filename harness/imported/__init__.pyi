from .download import (
    GPT2_OUTPUT as GPT2_OUTPUT,
    GROVER as GROVER,
    LEDGER as LEDGER,
    Remote as Remote,
    edit_ledger as edit_ledger,
    fetch as fetch,
    find_generations as find_generations,
    is_offline as is_offline,
    read_ledger as read_ledger,
    refuse_missing as refuse_missing,
    verify as verify,
)
from .files import (
    HUMAN_TEXTS as HUMAN_TEXTS,
    IDS as IDS,
    MESSAGES as MESSAGES,
    TEXTS as TEXTS,
    check_text as check_text,
    choose_text_field as choose_text_field,
    detect_kind as detect_kind,
    digest_files as digest_files,
    download_if_on_hub as download_if_on_hub,
    expose_nested_field as expose_nested_field,
    find_text_field as find_text_field,
    holds_conversations as holds_conversations,
    is_valid_text as is_valid_text,
    read_records as read_records,
)
from .generations import (
    GROVER_FIELDS as GROVER_FIELDS,
    compute_fingerprint as compute_fingerprint,
    digest_corpus as digest_corpus,
    load_corpus as load_corpus,
    read_conversation as read_conversation,
    read_generations as read_generations,
    recognize_format as recognize_format,
    split_member as split_member,
)
from .pairing import (
    ImportedRows as ImportedRows,
    import_rows as import_rows,
    import_texts as import_texts,
    import_unpaired as import_unpaired,
)
from .records import OUTPUT_TITLES as OUTPUT_TITLES, TextSelection as TextSelection
from .scores import SystemScores as SystemScores, read_system_scores as read_system_scores
from .systems import (
    Damage as Damage,
    HumanTexts as HumanTexts,
    NaiveSystem as NaiveSystem,
    NaiveTexts as NaiveTexts,
    damage_texts as damage_texts,
    digest_source as digest_source,
    find_nearest_prompts as find_nearest_prompts,
    is_built_in_system as is_built_in_system,
    list_damages as list_damages,
    parse_damage as parse_damage,
    parse_naive_system as parse_naive_system,
)
