// A collection for members that come and go with each message. A Map or a Set copies its table after some removals, and
// the former table refers to its copy and keeps the members that it had. When V8 has promoted one of these tables, its
// scavenges keep all later ones, with everything that their members refer to, until the next mark-compact.

/** Unordered. Adding and removing take constant time. */
export class Bag<T> {
  readonly #places: { readonly member: T; at: number }[] = [];

  get size(): number {
    return this.#places.length;
  }

  /** Returns the members of this moment. */
  members(): T[] {
    return this.#places.map(({ member }) => member);
  }

  /** Returns the function that removes the member. Call it once. */
  add(member: T): () => void {
    const place = { member, at: this.#places.length };
    this.#places.push(place);
    return () => {
      const last = this.#places.pop();
      if (last === undefined || last === place) return;
      last.at = place.at;
      this.#places[place.at] = last;
    };
  }
}
