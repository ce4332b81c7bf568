"""Hypothesis strategies for a store and its runs (docs/hypothesis.md).

Hypothesis comes with `pip install '.[test]'`.
"""

from .choices import choices as choices
from .choices import schedules as schedules
from .choices import surprises as surprises
from .messages import batches as batches
from .messages import bodies as bodies
from .messages import keys as keys
from .messages import messages as messages
from .messages import messages_out_of_bounds as messages_out_of_bounds
from .messages import properties as properties
from .messages import tags as tags
from .messages import topics as topics
from .plans import DrawnDirectory as DrawnDirectory
from .plans import fault_plans as fault_plans
from .plans import plans as plans
from .plans import store_directories as store_directories
from .session import StoreBroke as StoreBroke
from .session import StoreSession as StoreSession
from .store_machine import StoreMachine as StoreMachine
