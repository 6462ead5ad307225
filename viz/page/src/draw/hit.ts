// What stands under a point of the picture.

import { Block } from '../data/run';
import { Scene } from '../scene';
import { inside } from './frame';
import { Bar, barAt, ROW } from './lanes';
import { blockAt } from './map';

export type Hit =
  | { kind: 'bar'; run: number; track: number; bar: Bar }
  | { kind: 'block'; block: Block }
  | { kind: 'memory'; time: number }
  | { kind: 'label'; key: string };

export function hitAt(scene: Scene, x: number, y: number): Hit | undefined {
  const { layout } = scene;
  const { frame } = layout;
  if (layout.lanes && y >= layout.lanes.y && y < layout.lanes.y + layout.lanes.height) {
    const row = layout.rows[Math.floor((y - layout.lanes.y + scene.view.scroll) / ROW)];
    if (!row || row.kind !== 'track') return undefined;
    if (x < frame.left) return row.folds > 1 ? { kind: 'label', key: `${row.run}:${row.lane}` } : undefined;
    const bar = barAt(scene.runs[row.run], row.track, frame, frame.time(x), 3 * frame.nsPerPixel);
    return bar && !scene.hidden(`class:${bar.opClass}`) ? { kind: 'bar', run: row.run, track: row.track, bar } : undefined;
  }
  if (x < frame.left || x > frame.left + frame.width) return undefined;
  if (layout.map && inside(layout.map, x, y)) {
    const block = blockAt(scene.runs[0], frame, layout.map, scene.mapStyle(), x, y);
    return block && { kind: 'block', block };
  }
  if (layout.memory && inside(layout.memory, x, y)) return { kind: 'memory', time: frame.time(x) };
  return undefined;
}
