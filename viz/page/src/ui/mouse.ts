// What the mouse does on the picture: wheel, drag, rest, click.

import { Frame, inside } from '../draw/frame';
import { Hit, hitAt } from '../draw/hit';
import { Navigation } from '../navigation';
import { Page } from '../page';
import { RangePanel } from './range';
import { SelectionPanel } from './selection';
import { Stage } from './stage';
import { Tooltip } from './tooltip';

const CLICK_SLACK = 4; // pixels that a click may move

interface Drag {
  x: number;
  y: number;
  from: number;
  to: number;
  scroll: number;
  mapFrom: number;
  range: boolean;
  moved: boolean;
}

export class Mouse {
  private drag?: Drag;

  constructor(
    private readonly page: Page,
    private readonly stage: Stage,
    private readonly tooltip: Tooltip,
    private readonly navigation: Navigation,
    private readonly selection: SelectionPanel,
    private readonly range: RangePanel,
  ) {
    const { overlay } = stage;
    const at = (event: MouseEvent): [number, number] => {
      const box = overlay.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    overlay.addEventListener('wheel', (event) => {
      event.preventDefault();
      this.wheel(event, ...at(event));
    }, { passive: false });
    overlay.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      overlay.setPointerCapture(event.pointerId);
      this.begin(event.shiftKey, ...at(event));
    });
    overlay.addEventListener('pointermove', (event) => {
      if (this.drag) this.move(this.drag, ...at(event));
      else this.hover(...at(event));
    });
    overlay.addEventListener('pointerup', (event) => this.end(...at(event)));
    overlay.addEventListener('pointerleave', () => {
      stage.pointer = undefined;
      tooltip.hide();
      stage.drawOverlay();
    });
    overlay.addEventListener('dblclick', (event) => {
      const hit = this.hit(...at(event));
      if (hit?.kind === 'bar') this.zoomTo(hit.bar.start, hit.bar.end, 0.5, 100);
    });
  }

  private hit(x: number, y: number): Hit | undefined {
    return hitAt(this.page.scene, x, y);
  }

  /** Shows a stretch of time with `share` of its length and `more` ns on each side. */
  private zoomTo(start: number, end: number, share: number, more: number): void {
    const margin = (end - start) * share + more;
    this.navigation.setWindow(start - margin, end + margin);
  }

  private wheel(event: WheelEvent, x: number, y: number): void {
    const { layout } = this.page.scene;
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const delta = (event.deltaY || 0) * lines, across = (event.deltaX || 0) * lines;
    if (event.shiftKey) this.navigation.pan((delta || across) / 1200);
    else if ((event.altKey || event.ctrlKey) && this.page.scene.mapPane(x, y))
      this.navigation.zoomMap(Math.exp(delta * 0.0018), this.page.scene.mapPane(x, y)!.box, y);
    else if (x < layout.frame.left) {
      this.navigation.scrollLanes(delta);
      this.page.changed();
    } else if (Math.abs(across) > Math.abs(delta)) this.navigation.pan(across / 1200);
    else this.navigation.zoom(Math.exp(Math.max(-400, Math.min(400, delta)) * 0.0022), layout.frame.time(x));
    this.hover(x, y);
  }

  private hover(x: number, y: number): void {
    this.stage.pointer = { x, y };
    this.stage.drawOverlay();
    const hit = this.hit(x, y);
    this.stage.overlay.style.cursor = hit && hit.kind !== 'memory' && hit.kind !== 'link' ? 'pointer' : 'crosshair';
    this.tooltip.show(hit, x, y, this.stage.box.getBoundingClientRect());
  }

  private begin(range: boolean, x: number, y: number): void {
    const { from, to, scroll, mapFrom } = this.page.scene.view;
    this.drag = { x, y, from, to, scroll, mapFrom, range, moved: false };
    this.tooltip.hide();
  }

  private move(drag: Drag, x: number, y: number): void {
    if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > CLICK_SLACK) drag.moved = true;
    if (!drag.moved) return;
    const { layout, view } = this.page.scene;
    const { frame, lanes } = layout;
    const map = this.page.scene.mapPane(drag.x, drag.y)?.box;
    this.stage.pointer = { x, y };
    if (drag.range) {
      const begun = new Frame(drag.from, drag.to, frame.left, frame.width);
      const [from, to] = [begun.time(drag.x), frame.time(x)].sort((a, b) => a - b);
      view.range = [from, Math.max(to, from + 1)];
      this.stage.drawOverlay();
      return;
    }
    if (lanes && inside(lanes, Math.max(drag.x, frame.left), drag.y)) {
      view.scroll = drag.scroll;
      this.navigation.scrollLanes(drag.y - y);
    }
    const shown = view.mapTo - view.mapFrom;
    if (map) this.navigation.moveMap(drag.mapFrom + ((y - drag.y) / map.height) * shown, shown);
    const by = ((drag.x - x) / frame.width) * (drag.to - drag.from);
    this.navigation.setWindow(drag.from + by, drag.to + by);
  }

  private end(x: number, y: number): void {
    const { drag } = this;
    this.drag = undefined;
    if (!drag) return;
    if (drag.moved && drag.range) {
      void this.range.show();
      this.page.changed();
    }
    if (!drag.moved) this.click(x, y);
  }

  private click(x: number, y: number): void {
    const hit = this.hit(x, y);
    if (!hit || hit.kind === 'link') return;
    const { runs, view } = this.page.scene;
    if (hit.kind === 'label') {
      if (!view.unfolded.delete(hit.key)) view.unfolded.add(hit.key);
      this.navigation.scrollLanes(0);
      this.page.changed();
    } else if (hit.kind === 'memory') void this.selection.showMoment(hit.time);
    else if (hit.kind === 'block') void this.selection.select({ kind: 'block', run: hit.run, id: hit.block.id }, false);
    else if (hit.kind === 'wait') void this.selection.select({ kind: 'wait', run: hit.run, id: hit.id }, false);
    else if (hit.kind === 'row') void this.selection.select({ kind: 'row', run: hit.run, id: hit.first }, false);
    else if (hit.bar.count > 1) this.zoomTo(hit.bar.start, hit.bar.end, 0.2, 0);
    else {
      const { meta } = runs[hit.run];
      const { source } = meta.lanes[meta.tracks[hit.track].lane];
      void this.selection.select({ kind: source === 'host' || source === 'rank' ? source : 'op', run: hit.run, id: hit.bar.id }, false);
    }
  }
}
