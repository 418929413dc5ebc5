from .answers import (
    StudyAnswers as StudyAnswers,
    find_answer_files as find_answer_files,
    gather_answers as gather_answers,
    group_files_by_study as group_files_by_study,
    tabulate_answers as tabulate_answers,
    write_study_files as write_study_files,
)
from .design import (
    KEY as KEY,
    SizesError as SizesError,
    StudyKey as StudyKey,
    read_controls as read_controls,
    read_key as read_key,
    read_study_texts as read_study_texts,
)
from .llm_judge import (
    JudgeQuestion as JudgeQuestion,
    JudgeTask as JudgeTask,
    build_questions as build_questions,
    judge_study as judge_study,
    write_judgments_of_judge as write_judgments_of_judge,
)
from .protocol import (
    StudyProtocol as StudyProtocol,
    list_protocol_names as list_protocol_names,
    load_protocol as load_protocol,
)
from .server import serve_study as serve_study
from .study import (
    DATASHEET as DATASHEET,
    SHEETS as SHEETS,
    fill_all_sheets as fill_all_sheets,
    make_study as make_study,
    write_study as write_study,
)
from .trial_study import run_simulated_study as run_simulated_study
