// A canvas in units of CSS pixels, as sharp as the screen.

export function fitCanvas(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = window.devicePixelRatio || 1;
  const [columns, rows] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== columns || canvas.height !== rows) Object.assign(canvas, { width: columns, height: rows });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

export function line(context, from, to, { colour, width = 2, alpha = 1, dash = [] }) {
  context.save();
  Object.assign(context, { strokeStyle: colour, lineWidth: width, globalAlpha: alpha, lineCap: "round" });
  context.setLineDash(dash);
  context.beginPath();
  context.moveTo(...from);
  context.lineTo(...to);
  context.stroke();
  context.restore();
}

export function arrow(context, from, to, { colour, width = 2, head = 8 }) {
  line(context, from, to, { colour, width });
  const angle = Math.atan2(to[1] - from[1], to[0] - from[0]);
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(...to);
  for (const turn of [-0.45, 0.45]) {
    context.lineTo(to[0] - head * Math.cos(angle + turn), to[1] - head * Math.sin(angle + turn));
  }
  context.fill();
}

export function disc(context, [x, y], radius, { fill = null, stroke = null, width = 2, alpha = 1 }) {
  context.save();
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  if (fill) {
    context.globalAlpha = alpha;
    context.fillStyle = fill;
    context.fill();
  }
  if (stroke) Object.assign(context, { globalAlpha: 1, strokeStyle: stroke, lineWidth: width });
  if (stroke) context.stroke();
  context.restore();
}

export function write(context, text, [x, y], { colour, size = 13, weight = 400, align = "center", backing = null }) {
  Object.assign(context, { font: `${weight} ${size}px system-ui, sans-serif`, textAlign: align, textBaseline: "middle" });
  if (backing) {
    Object.assign(context, { strokeStyle: backing, lineWidth: 4, lineJoin: "round" });
    context.strokeText(text, x, y);
  }
  context.fillStyle = colour;
  context.fillText(text, x, y);
}
