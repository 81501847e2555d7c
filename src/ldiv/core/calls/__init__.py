"""A public function and its calls: what the numbers do not decide, decided once."""
