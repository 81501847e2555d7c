"""One verdict for every engine: scaling, the probe for singularity, backward errors, refinement."""
