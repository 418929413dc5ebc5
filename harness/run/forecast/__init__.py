"""What a grid would need, and how long it would take."""

from openended.harness.run.forecast.forecast import Forecast, forecast
from openended.harness.run.forecast.rates import Rates, read_rates

__all__ = ["Forecast", "Rates", "forecast", "read_rates"]
