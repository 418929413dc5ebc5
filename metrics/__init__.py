"""Metrics of open-ended generation: pure functions of arrays and token lists, one file a metric.

Each module has its public function (`openended.metrics.mauve.mauve`, `openended.metrics.self_bleu.self_bleu`, …) and
one registered spec. Nothing here imports torch, so the functions are useful without the harness.
"""
