(function () {
  "use strict";
  if (typeof Chart === "undefined") return;
  document.documentElement.classList.add("charts");
  var drawn = [];
  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }
  function bytes(v) {
    var unit = ["B", "KB", "MB", "GB"], i = 0;
    while (v >= 1000 && i < 3) { v /= 1000; i++; }
    return +v.toPrecision(3) + " " + unit[i];
  }
  function percent(v) { return +(100 * v).toFixed(2) + " %"; }
  function draw(data) {
    var d = JSON.parse(data.textContent);
    var palette = [color("--accent"), color("--second"), color("--third")];
    var soft = color("--soft"), line = color("--line");
    var y = d.percent ? percent : function (v) { return +v.toPrecision(4); };
    var x = d.log ? bytes : function (v) { return +v.toPrecision(4); };
    return new Chart(document.getElementById(data.dataset.for), {
      type: "scatter",
      data: {
        datasets: d.lines.map(function (l, i) {
          var c = i < 3 ? palette[i] : "hsl(" + (i * 47) % 360 + " 45% 55%)";
          return { label: l.label, data: l.data, showLine: true, borderColor: c,
            backgroundColor: c, borderWidth: 2, pointRadius: l.data.length > 40 ? 0 : 3,
            tension: 0 };
        })
      },
      options: {
        animation: false, responsive: true, maintainAspectRatio: false,
        interaction: { mode: "nearest", intersect: false },
        scales: {
          x: { type: d.log ? "logarithmic" : "linear", reverse: d.log,
            title: { display: true, text: d.log ? "file" : d.x, color: soft },
            ticks: { color: soft, callback: d.log ? function (v) {
              var m = v / Math.pow(10, Math.floor(Math.log10(v)));
              return Math.abs(m - 1) < .01 || Math.abs(m - 2) < .01 || Math.abs(m - 5) < .01
                ? bytes(v) : "";
            } : x, precision: d.x === "epoch" ? 0 : undefined },
            grid: { color: line } },
          y: { title: { display: true, text: d.y, color: soft },
            ticks: { color: soft, callback: y }, grid: { color: line } }
        },
        plugins: {
          legend: { display: d.lines.length > 1, labels: { color: soft, boxWidth: 12 } },
          tooltip: { callbacks: { label: function (p) {
            return p.dataset.label + ": " + y(p.parsed.y) + " at " + x(p.parsed.x);
          } } }
        }
      }
    });
  }
  function drawAll() {
    drawn.forEach(function (c) { c.destroy(); });
    drawn = Array.prototype.map.call(document.querySelectorAll("script.chart-data"), draw);
  }
  drawAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
