"""The accounting as slurmrestd reports it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

from gpumon.model.fault import SourceError
from gpumon.model.text import plain
from gpumon.sources.own_login import own_login
from gpumon.sources.slurm.accounting.json import read_ended
from gpumon.sources.slurm.commands import failures, token
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.json.values import records
from gpumon.sources.slurm.rest import failures as rest_failures
from gpumon.sources.slurm.rest.client import RestClient

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpumon.model.records.accounting import StepUsage
    from gpumon.sources.rest_address import RestAddress
    from gpumon.sources.slurm.accounting.usage import EndedList
    from gpumon.sources.source import Clock

_UNKNOWN_QUERY: Final = re.compile(r"unknown query|query empty", re.IGNORECASE)
"""What 22.05 answers to `users` and `show_duplicates`, which it does not know."""

_NOTHING: Final = re.compile(r"nothing found", re.IGNORECASE)
"""Words of ESLURM_REST_EMPTY_RESULT, 9003 in 22.05."""


class RestAccounting:
    """Asks slurmrestd for the ended jobs of one user, or of everybody whose jobs Slurm shows."""

    def __init__(
        self,
        address: RestAddress,
        *,
        user: str = "",
        everyone: bool = False,
        client: RestClient | None = None,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """Ask at this address.

        Args:
            address: Where slurmrestd listens.
            user: Login name; empty: whom the token speaks for.
            everyone: Every user's jobs, whatever `user` says.
            client: Asks; of no other thread.
            clock: Time, real or injected.
            environ: Where the token may be.
            folder: Where this user's gpumons share the version; None: nowhere.
        """
        self._environ = os.environ if environ is None else environ
        self._address = address
        self._user = user
        self._everyone = everyone
        self._client = client or RestClient(
            address, clock=clock, environ=self._environ, service="slurmdb", folder=folder
        )
        self._knows_queries = True

    def ended(self, window_s: float) -> EndedList:
        """Jobs that ended within the last `window_s` seconds, with their steps.

        Raises:
            CommandFailedError: there was no answer of use.
        """
        owner = "" if self._everyone else self._user or self._own_name()
        answer = self._answer(window_s, owner)
        found = read_ended(records(answer, "jobs") or [])
        if found.unreadable and not found.jobs:
            total = found.unreadable
            raise CommandFailedError(
                failures.unread(rest_failures.where("jobs"), "ended jobs", total, total)
            )
        mine = tuple(ended for ended in found.jobs if not owner or ended.job.user == owner)
        return found._replace(
            jobs=mine,
            remarks=rest_failures.remarks("jobs", answer),
            has_last_runs_only=not self._knows_queries,
        )

    def running(self, job_id: str) -> tuple[StepUsage, ...]:
        """Nothing: slurmrestd has no way to ask.

        Raises:
            CommandFailedError: always, with the way out.
        """
        raise CommandFailedError(
            SourceError(
                rest_failures.where("steps"),
                f"does not report what running steps use, such as those of job {plain(job_id)}",
                "watch the cluster by its commands: `slurm` or `slurm+ssh://login`",
            )
        )

    def close(self) -> None:
        """Break off the running question."""
        self._client.close()

    def _answer(self, window_s: float, owner: str) -> Mapping[str, Any]:
        """The answer, of every run and narrowed to one user where the server can do that.

        States are not asked for: 22.05 takes them joined by commas, 24.11 takes that for one state
        of a strange name and answers with every job. What runs is left out by the reader.
        """
        # Seconds before `now` count back from the server's clock, whatever ours says.
        params = {"start_time": f"now-{window_s:.0f}"}
        if self._knows_queries:
            # Without the second, the last run of a job that was requeued is all that is reported.
            more = {**({"users": owner} if owner else {}), "show_duplicates": "true"}
            try:
                return self._get({**params, **more})
            except CommandFailedError as failed:
                if not _UNKNOWN_QUERY.search(failed.error.message):
                    raise
                self._knows_queries = False
        return self._get(params)

    def _get(self, params: Mapping[str, str]) -> Mapping[str, Any]:
        """The answer, an empty one where slurmdbd calls finding nothing an error."""
        try:
            return self._client.get("jobs", params=params) or {}
        except CommandFailedError as failed:
            if _NOTHING.search(failed.error.message):
                return {}
            raise

    def _own_name(self) -> str:
        """Whom the token speaks for, else the user of this process."""
        own = token.read_token(self._address.token_file, self._environ)
        if own is not None:
            return own.user
        return own_login()
