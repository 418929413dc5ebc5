"""What a grid would need, and how long it would take."""

from openended.harness.run.forecast.forecast import Forecast, forecast_plans
from openended.harness.run.forecast.rates import Rates, read_rates

__all__ = ["Forecast", "Rates", "forecast_plans", "read_rates"]
