// Reads the columns of a piece: the counterpart of viz/pack/column_codec.hpp.

/** Each column's values; exact while they stay below 2^53. */
export function decodeColumns(bytes: Uint8Array): Float64Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const count = view.getUint32(0, true);
  const columns: Float64Array[] = [];
  let at = 4 + 4 * count;
  for (let c = 0; c < count; c++) {
    const column = new Float64Array(view.getUint32(4 + 4 * c, true));
    let value = 0;
    for (let i = 0; i < column.length; i++) {
      let byte = bytes[at++];
      const negative = byte & 1;
      let size = (byte & 0x7f) >> 1;
      for (let scale = 64; byte >= 0x80; scale *= 128) {
        byte = bytes[at++];
        size += (byte & 0x7f) * scale;
      }
      value += negative ? -size - 1 : size;
      column[i] = value;
    }
    columns.push(column);
  }
  return columns;
}
