// What stands under a point of the picture.

import { Block } from '../data/run';
import { Scene } from '../scene';
import { Bar, barAt, ROW } from './lanes';
import { blockAt } from './map';
import { rowAt } from './ranks';
import { waitAt } from './waits';

export type Hit =
  | { kind: 'bar'; run: number; track: number; bar: Bar }
  | { kind: 'block'; run: number; block: Block }
  | { kind: 'memory'; time: number }
  | { kind: 'wait'; run: number; id: number }
  | { kind: 'link'; run: number; id: number; time: number }
  | { kind: 'row'; run: number; first: number; count: number; time: number } // of the heat map; time NaN: its name
  | { kind: 'label'; key: string };

export function hitAt(scene: Scene, x: number, y: number): Hit | undefined {
  const { layout } = scene;
  const { frame } = layout;
  if (layout.lanes && y >= layout.lanes.y && y < layout.lanes.y + layout.lanes.height) {
    const row = layout.rows[Math.floor((y - layout.lanes.y + scene.view.scroll) / ROW)];
    if (row?.kind === 'waits' && x >= frame.left) {
      const id = waitAt(scene.runs[row.run], frame, frame.time(x), 3 * frame.nsPerPixel, scene.hidden);
      return id === undefined ? undefined : { kind: 'wait', run: row.run, id };
    }
    if (row?.kind === 'link' && x >= frame.left) return { kind: 'link', run: row.run, id: row.link!, time: frame.time(x) };
    if (!row || row.kind !== 'track') return undefined;
    if (x < frame.left) return row.folds > 1 ? { kind: 'label', key: `${row.run}:${row.lane}` } : undefined;
    const bar = barAt(scene.runs[row.run], row.track, frame, frame.time(x), 3 * frame.nsPerPixel);
    return bar && !scene.hidden(`class:${bar.opClass}`) ? { kind: 'bar', run: row.run, track: row.track, bar } : undefined;
  }
  const ranks = scene.rankPane(x, y);
  if (ranks) {
    const [run] = ranks.runs;
    return { kind: 'row', run, ...rowAt(scene.runs[run].ranks!, ranks.box, y), time: x < frame.left ? NaN : frame.time(x) };
  }
  if (x < frame.left || x > frame.left + frame.width) return undefined;
  const map = scene.mapPane(x, y);
  if (map) {
    const [run] = map.runs;
    const block = blockAt(scene.runs[run], scene.memoryFrame(run), map.box, scene.mapStyle(run), x, y);
    return block && { kind: 'block', run, block };
  }
  if (scene.memoryPane(x, y)) return { kind: 'memory', time: frame.time(x) };
  return undefined;
}
