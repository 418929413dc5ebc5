"""Parts of MAUVE and of the precision–recall curve: cells, histograms, density ratios."""
