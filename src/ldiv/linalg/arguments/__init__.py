"""Arguments of public functions, validated and turned into arguments of rules."""
