"""Experiment trackers that receive finished runs: Trackio, Weights & Biases, MLflow and TensorBoard."""
