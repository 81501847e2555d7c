"""Equations in matrices: Sylvester, Lyapunov, Stein, Riccati."""
