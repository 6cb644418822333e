include: "workflow/Snakefile"


# An included file sets no default target.
workflow.default_target = "all"
