"""What users pass, validated, and made the arguments of a rule."""
