"""The one thing that callers have to catch, whatever went wrong inside."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import Scope

Method = TypeVar("Method", bound=Callable[..., Any])


def only_provider_errors(*, creates: bool = False) -> Callable[[Method], Method]:
    """For methods of a provider. An answer that is not as documented must not end a job: whatever is
    unforeseen becomes a ProviderError of kind unknown. creates: what was sent may have taken effect.
    """

    def decorate(method: Method) -> Method:
        @wraps(method)
        def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except ProviderError:
                raise
            except Exception as error:
                raise ProviderError(
                    ErrorKind.UNKNOWN,
                    f"{type(error).__name__}: {error}",
                    code="UnexpectedAnswer",
                    scope=Scope("azure", self.account),
                    ambiguous=creates,
                ) from error

        return cast(Method, guarded)

    return decorate
