startTables();
startFigures();
startTexts();
startWhy();
