"""Typed settings: the one source of the checks, of config/schema.json, of the reference page and of the annotated default."""
