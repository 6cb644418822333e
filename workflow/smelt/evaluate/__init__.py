"""Measure a language model, a classifier or a dialogue model on held-out data, beside honest references."""
