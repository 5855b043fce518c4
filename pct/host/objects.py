"""The objects of one job on a node: looked for, received, sent on, published.

Carries out the actions of the job of a :class:`pct.job.rules.objects.ObjectTable` on the store and
the port, and reports what became of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from native.host.files import Owner, open_plain
from native.ids import ObjectKey
from native.machine import Event
from native.port.port import Port
from pct import events
from pct.host.store import Checked, Store


class JobObjects:
    """The files of one job's objects.

    Args:
        owner: of the job. Objects belong to it, and are opened with its rights.
        handle: takes the events.
    """

    def __init__(
        self,
        job_id: int,
        owner: Owner,
        store: Store,
        port: Port,
        handle: Callable[[Event], None],
    ) -> None:
        self._job_id = job_id
        self._owner = owner
        self._store = store
        self._port = port
        self._handle = handle
        self._at_port: set[int] = set()  # objects that the port may be busy with

    def check(self, action: events.CheckObjects) -> None:
        """Look for objects, and take room for those that are not here."""

        def done(checked: Checked) -> None:
            no_place = tuple(events.NoPlace(number, text) for number, text in checked.no_place)
            self._handle(
                events.ObjectsChecked(self._job_id, checked.present, checked.lacking, no_place)
            )

        self._store.check(
            self._job_id,
            action.objects,
            action.arguments_first,
            self._owner,
            done,
            action.unused,
        )

    def receive(self, action: events.ReceiveObject) -> None:
        """Have the port receive an object into its room."""
        fd = self._store.reserved(self._job_id, action.number).fd
        self._at_port.add(action.number)
        self._port.receive_object(
            self._key(action.number),
            fd,
            action.shipped.size,
            action.chunk_bytes,
            list(action.children),
        )

    def send(self, action: events.SendObject) -> None:
        """Have the port send an object that is here."""
        try:
            fd = open_plain(action.path, self._owner)
        except OSError as error:
            self._lost(action.number, error)
            return
        self._at_port.add(action.number)
        self._port.send_object(
            self._key(action.number),
            fd,
            action.shipped.size,
            action.chunk_bytes,
            list(action.children),
        )
        os.close(fd)

    def publish(self, number: int, mode: int) -> None:
        """Give an object its name."""
        try:
            path = self._store.publish(self._job_id, number, mode, self._owner.uid, self._owner.gid)
        except OSError as error:
            self._lost(number, error)
        else:
            self._handle(events.ObjectStored(self._job_id, number, path))

    def read(self, number: int) -> None:
        """Read an object that has no name, and give its room back."""
        try:
            content = self._store.content(self._job_id, number)
        except OSError as error:
            self._lost(number, error)
        else:
            self._handle(events.ObjectStored(self._job_id, number, b"", content))

    def drop(self, number: int) -> None:
        """Stop receiving an object and give its room back."""
        self._port.cancel_object(self._key(number))
        self._store.drop(self._job_id, number)

    def close(self) -> None:
        """Forget every object at the port. The store's part is dropped with the job."""
        for number in self._at_port:
            self._port.cancel_object(self._key(number))

    def _key(self, number: int) -> ObjectKey:
        return ObjectKey(self._job_id, number)

    def _lost(self, number: int, error: OSError) -> None:
        self._handle(events.ObjectLost(self._job_id, number, str(error)))
