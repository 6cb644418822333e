"""Report: one HTML page of an experiment's figures, and the same figures as JSON.

Upstream role `nodes`: all the experiment's nodes but report and archive. `report.html` is self-contained: no script, no
network, no file beside it. `summary.json` lists every figure with the node that it is from. Both hold timings of the nodes,
so they are equal for equal manifests and provenance, not from one run of the pipeline to the next.
"""

from smelt.plan.job import Job, Product
from smelt.plan.manifest import to_json, write_atomically
from smelt.plan.settings.report import Report
from smelt.report.nodes import Nodes
from smelt.report.page import page
from smelt.report.summary import summary


def run(job: Job) -> Product:
    settings = Report.model_validate(job.settings["report"])
    experiment = job.settings["experiment"]
    nodes = Nodes(job.inputs["nodes"])
    collected = summary(experiment, nodes)
    html = page(experiment, nodes, settings, len(collected["figures"]))
    write_atomically(job.directory / "report.html", html)
    write_atomically(job.directory / "summary.json", to_json(collected))
    job.say(f"{len(collected['figures'])} figures of {len(nodes.all)} nodes, {len(html.encode()) / 1000:.0f} kB")
    facts = {"experiment": experiment, "nodes": len(nodes.all), "figures_collected": len(collected["figures"])}
    return Product(["report.html", "summary.json"], facts)
