"""Word lists of the surface features."""

from __future__ import annotations

# Frequent words of four letters or more; shorter ones are no content words anyway.
STOP_WORDS = frozenset(
    """
    about above across after again against almost along already also although always among another anything around
    away back became because become been before behind being below between both came cannot come could didn does doesn
    doing done down during each either else enough even ever every everything from further gave getting give given goes
    going gone hadn hasn have haven having here hers herself himself however instead into isn itself just keep kept
    knew know known less like likely made make makes making many maybe might more most much must myself nearly need
    neither never next none nothing often once only onto other others ought ours ourselves over perhaps quite rather
    really said same says seem seemed seems several shall should since some someone something sometimes soon still such
    take taken takes than that their theirs them themselves then there these they thing things this those though
    through thus together told took toward towards under until unto upon used using very want wants wasn well went were
    weren what whatever when where whether which while whole whom whose will with within without would wouldn your
    yours yourself yourselves
    """.split()
)
PRONOUNS = frozenset(
    """
    i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself we us
    our ours ourselves they them their theirs themselves this that these those
    """.split()
)
MARKERS: dict[str, tuple[str, ...]] = {
    "contrast": ("but", "however", "although", "though", "yet", "whereas", "nevertheless", "despite", "instead"),
    "cause": ("because", "therefore", "thus", "hence", "since", "consequently", "so"),
    "temporal": ("then", "before", "after", "when", "while", "meanwhile", "later", "finally", "until", "once"),
    "addition": ("and", "also", "moreover", "furthermore", "besides", "additionally", "too"),
    "condition": ("if", "unless", "otherwise", "provided", "whether", "assuming"),
    "example": ("instance", "example", "namely", "specifically", "particularly", "e.g"),
    "conclusion": ("overall", "conclusion", "summary", "ultimately", "altogether", "indeed"),
}
CLASS_OF = {word: number for number, words in enumerate(MARKERS.values()) for word in words}
