"""Accountants: frozen settings, and which readers answer."""

from fastacct.accountants.base import Method
from fastacct.accountants.exact import Exact
from fastacct.accountants.older import CLT, AdvancedComposition, AnalyticGaussian, BasicComposition, ZCDPComposition
from fastacct.accountants.pld import PLD
from fastacct.accountants.rdp import RDP

__all__ = ["CLT", "PLD", "RDP", "AdvancedComposition", "AnalyticGaussian", "BasicComposition", "Exact", "Method"]
__all__ += ["ZCDPComposition"]
