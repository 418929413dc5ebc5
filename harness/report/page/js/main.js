startNavigation();
startTables();
startFigures();
startTexts();
startWhy();
startAddress();
