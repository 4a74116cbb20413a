"""How are genuine bytes spoilt? As faults and attackers do: changed, lost, put in, cut, joined."""

from hypothesis import strategies as st


@st.composite
def mutated(draw: st.DrawFn, genuine: list[bytes]) -> bytes:
    """One of the genuine texts, with pieces of itself and of others changed, lost and put in."""
    data = bytearray(draw(st.sampled_from(genuine)))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["change", "flip", "lose", "insert", "splice", "cut"])):
            case "change":
                data[at : at + 1] = draw(st.binary(max_size=2))
            case "flip" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "lose":
                del data[at : at + draw(st.integers(1, 20))]
            case "insert":
                data[at:at] = draw(st.binary(max_size=20))
            case "splice":
                other = draw(st.sampled_from(genuine))
                begin = draw(st.integers(0, len(other)))
                data[at:at] = other[begin : begin + draw(st.integers(0, 40))]
            case "cut":
                del data[at:]
            case _:
                pass
    return bytes(data)
