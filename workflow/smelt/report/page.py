"""The page: sections in order, drawn by the template `page.html.j2` with `page.css` put into it."""

from importlib import resources
from typing import Any

from smelt.plan.settings.report import Report
from smelt.report.blocks import Picture, Section
from smelt.report.graph import picture
from smelt.report.language_model import model_sections
from smelt.report.material import material_sections
from smelt.report.nodes import Nodes, anchor, label, ref
from smelt.report.origin import origin_section, settings_of, speed_section
from smelt.report.overview import headlines, paragraph
from smelt.report.tasks import task_sections


def sections(nodes: Nodes, settings: Report) -> list[Section]:
    """Those that there is something to say in: an experiment without fine-tuning has no section of tasks."""
    pipeline = Section(
        "pipeline",
        "Pipeline",
        [
            Picture(
                "",
                picture(nodes),
                wide=True,
                note="From left to right; an arrow that a longer way implies is left out. Each box leads to its node.",
            )
        ],
        "What was made from what, and how long each took.",
    )
    found = [pipeline, *material_sections(nodes), *model_sections(nodes, settings), *task_sections(nodes, settings)]
    found += [*speed_section(nodes), origin_section(nodes)]
    return [section for section in found if section.blocks]


def page(experiment: str, nodes: Nodes, settings: Report, figures: int) -> str:
    """The whole HTML, self-contained: no script, nothing from elsewhere, every text of the data escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(
            lambda name: resources.files("smelt.report").joinpath(name).read_text(encoding="utf-8")
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"anchor": anchor, "ref": ref, "label": label}
    environment.tests |= {
        "node": lambda value: hasattr(value, "upstream"),
        "bar": lambda value: hasattr(value, "share"),
    }
    return environment.get_template("page.html.j2").render(_content(experiment, nodes, settings, figures))


def _content(experiment: str, nodes: Nodes, settings: Report, figures: int) -> dict[str, Any]:
    from markupsafe import Markup

    style = resources.files("smelt.report").joinpath("page.css").read_text(encoding="utf-8")
    return {
        "title": settings.title or experiment,
        "experiment": experiment,
        "introduction": settings.introduction,
        "paragraph": paragraph(nodes),
        "headlines": headlines(nodes),
        "sections": sections(nodes, settings),
        "appendix": settings_of(nodes),
        "figures": figures,
        "style": Markup(style),  # noqa: S704 - our own file
    }
