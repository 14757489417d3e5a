"""`Request`: what the trace asked for."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class Request:
    """One line of a trace.

    `output_tokens` is what the request will really produce; schedulers never see it. They may
    see `max_tokens`, the limit its client declared, and `predicted_output_tokens`, what somebody
    else's predictor said, if there is one.
    `session` names a conversation; `parent` is the id of the turn before this one.
    `block_hashes` identify the prompt's prefix, one id per `hash_block_tokens` tokens.

    Raises:
        InvalidRequestError: no prompt or output tokens, or a negative arrival.
    """

    id: str
    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    priority: int = 0
    client: str | None = None
    max_tokens: int | None = None
    predicted_output_tokens: int | None = None
    session: str | None = None
    parent: str | None = None
    block_hashes: tuple[int, ...] | None = None
    hash_block_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.arrival_ns < 0:
            raise InvalidRequestError(f"request {self.id}: arrival_ns {self.arrival_ns} is below 0")
        if self.prompt_tokens < 1:
            raise InvalidRequestError(
                f"request {self.id}: prompt_tokens {self.prompt_tokens} is below 1: "
                "without a prompt no step could produce a first token"
            )
        if self.output_tokens < 1:
            raise InvalidRequestError(
                f"request {self.id}: output_tokens {self.output_tokens} is below 1"
            )
