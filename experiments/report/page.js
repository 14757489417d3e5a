(() => {
  "use strict";
  const rows = JSON.parse(document.getElementById("rows").textContent);
  const tip = document.getElementById("tip");
  const add = (parent, name, text) => {
    const child = document.createElement(name);
    child.textContent = text;
    parent.append(child);
    return child;
  };
  const fill = (mark) => {
    tip.replaceChildren();
    if (mark.dataset.tip !== undefined) {
      mark.dataset.tip.split("\n").forEach((line, at) => add(tip, at ? "div" : "b", line));
      return;
    }
    const [title, facts] = rows[mark.dataset.row];
    add(tip, "b", title);
    const list = add(tip, "dl", "");
    for (const [name, value] of facts) { add(list, "dt", name); add(list, "dd", value); }
  };
  const place = (x, y) => {
    const box = tip.getBoundingClientRect();
    const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
    const top = y + 14 + box.height > innerHeight ? y - 14 - box.height : y + 14;
    tip.style.left = `${Math.max(6, Math.min(left, innerWidth - box.width - 6))}px`;
    tip.style.top = `${Math.max(6, top)}px`;
  };
  const light = (row, on) => {
    if (row === undefined) return;
    document.querySelectorAll(`[data-row="${row}"]`).forEach((e) => e.classList.toggle("on", on));
  };
  let shown = null;
  let at = [-1, -1];
  const hide = () => {
    if (shown) light(shown.dataset.row, false);
    shown = null;
    tip.hidden = true;
  };
  const show = (mark, x, y) => {
    if (mark !== shown) {
      hide();
      shown = mark;
      light(mark.dataset.row, true);
      if (mark.closest("svg")) { fill(mark); tip.hidden = false; }
    }
    if (!tip.hidden) place(x, y);
  };
  document.addEventListener("pointermove", (event) => {
    at = [event.clientX, event.clientY];
    const mark = event.target.closest("[data-row],[data-tip]");
    if (mark) show(mark, event.clientX, event.clientY); else if (shown) hide();
  });
  document.addEventListener("pointerdown", (event) => {
    const mark = event.target.closest("svg [data-row],svg [data-tip]");
    if (mark) show(mark, event.clientX, event.clientY); else hide();
  });
  document.addEventListener("focusin", (event) => {
    const mark = event.target.closest("svg [data-row]");
    if (!mark) return;
    const box = mark.getBoundingClientRect();
    show(mark, box.right, box.bottom);
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("scroll", () => {
    const under = document.elementFromPoint(...at);
    if (shown && !(under && shown.contains(under))) hide();
  }, { passive: true, capture: true });

  const key = (cell) => {
    if (cell.dataset.v === undefined) return cell.textContent;
    return cell.dataset.v === "" ? null : Number(cell.dataset.v);
  };
  const before = (a, b) => (typeof a === "number" && typeof b === "number"
    ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  document.querySelectorAll("table.sorts").forEach((table) => {
    table.tHead.addEventListener("click", (event) => {
      const head = event.target.closest("th");
      if (!head) return;
      const rising = head.getAttribute("aria-sort") !== "ascending";
      for (const each of head.parentNode.cells) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const column = head.cellIndex;
      const sorted = [...table.tBodies[0].rows].map((row) => [key(row.cells[column]), row]);
      sorted.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null);
        return rising ? before(a, b) : before(b, a);
      });
      table.tBodies[0].append(...sorted.map(([, row]) => row));
    });
  });
})();
