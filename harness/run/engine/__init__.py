"""One run on many devices and machines (`runtime.engine=ray`): workers that hold the models take chunks of its rows."""
