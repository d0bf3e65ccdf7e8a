"""Whether a campaign is still the one that it was made as."""

from owlfi.campaign.archive import Archive
from owlfi.campaign.design import Design
from owlfi.campaign.recipe import describe_changes, read_sources
from owlfi.campaign.store import Store


def check_same(archive: Archive, recipe: str, design: Design | None) -> None:
    """ValueError where a campaign has another simulator, or a design that did not begin as this."""
    if recipe != archive.recipe:
        raise ValueError(f"{archive.path} holds runs of another simulator; choose another file")
    difference = "" if design is None else archive.design.describe_difference(design)
    if difference:
        raise ValueError(
            f"{archive.path} has a design with {difference}; choose another file, or open this "
            "one with Campaign.open and add to it with extend"
        )


def check_source(store: Store, recipe: str, *, accept: bool) -> None:
    """ValueError where the simulator's source has changed and this is not to be accepted."""
    now = read_sources(recipe)
    changed = describe_changes(store.fact("sources"), now)
    if changed and not accept:
        raise ValueError(
            f"the simulator is not the one that {store.path} was made with; runs of both would "
            f"be mixed. accept_changes=True goes on all the same.\n{changed}"
        )
    if changed:
        store.put(sources=now, checked=False)
