"""The spine: what a stage is (settings, identity), what it left (manifest, provenance), what it needs (resources).

Imports neither torch nor any stage: `smelt --help` and a dry-run stay fast. Its modules do not count for the digest of a
stage's code (`smelt.plan.identity`), since they decide what runs and not what a stage computes.
"""
