"""The helper process: reads, decodes and augments beside the training process and its interpreter's lock."""

import os
import pickle
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, NoReturn

import torch

from dali_pipes.batch import STAGES_OF_HELPER, Stage, Timings
from dali_pipes.errors import LoaderError
from dali_pipes.finish import Draw, Finisher, Pending, Sheets, View
from dali_pipes.plan import Plan
from dali_pipes.produce import CpuProducer
from dali_pipes.ring import Frame, Ring
from dali_pipes.work import Work, Workshop
from gpu_aug import Engine, compile_engine
