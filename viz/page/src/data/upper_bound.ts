// Searches sorted values.

/** The first index whose value is above `limit`. */
export function upperBound(values: ArrayLike<number>, limit: number, from = 0, to = values.length): number {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (values[middle] <= limit) from = middle + 1;
    else to = middle;
  }
  return from;
}
