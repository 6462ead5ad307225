// What the parts of the page share.

import { Scene } from './scene';

export interface Page {
  readonly scene: Scene;
  /** Draws again, with the next frame. */
  redraw(): void;
  /** The view has changed: draws again, and writes the link. */
  changed(): void;
}
