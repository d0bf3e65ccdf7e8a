"""Campaigns: simulators that cost minutes or hours, run once each, kept in one file."""

from owlfi.campaign.campaign import Campaign, Status
from owlfi.campaign.driver import NotRepeatableError, Progress, TooManyFailuresError
from owlfi.campaign.external import Command

__all__ = [
    "Campaign",
    "Command",
    "NotRepeatableError",
    "Progress",
    "Status",
    "TooManyFailuresError",
]
