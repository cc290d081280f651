"""Agent kinds and the real programs behind them."""
