"""Settings of the archive: one verifiable file of an experiment."""

from pydantic import Field

from smelt.plan.settings.base import Settings


class Archive(Settings):
    """What goes into `<experiment>.tar.zst`. Configuration, lock, manifests, provenance and report always do."""

    include_model: bool = True
    """The final models: the converted directory and every fine-tuned one. Without them the archive is small and still proves,
    by the sha256 in the manifests, which models it tells of."""

    include_code: bool = True
    """The files that git tracks, as they are in the working tree when the archive is made."""

    compression_level: int = Field(3, ge=1, le=22)
    """Level of zstd, on one thread so that equal content gives equal bytes. Weights hardly shrink at any level; a high one only costs time."""
