from .compare import compare_models as compare_models, read_strings as read_strings
