"""What a rule, a structure and a tree of arrays are; knows no engine and no framework."""
