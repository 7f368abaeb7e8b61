// The fields of the page as HTML: a number and a slider for each.

const FIELDS = [
  ["noise", "Noise multiplier", "0.3 to 20, in clipping norms"],
  ["batch", "Batch size", "records in a step; of random samples on average"],
  ["records", "Records", "in the data set"],
  ["epochs", "Epochs", "1 to 1000"],
  ["delta", "Delta (δ)", "1e-12 to 0.01"],
];

const field = ([name, label, hint]) => `
      <div class="field">
        <label for="${name}">${label}</label>
        <input id="${name}" type="number" step="any" autocomplete="off" aria-describedby="${name}-hint ${name}-error">
        <input id="${name}-slider" type="range" min="0" max="400" autocomplete="off" aria-label="${label}, slider">
        <span class="hint" id="${name}-hint">${hint}</span>
        <span class="error" id="${name}-error" role="alert"></span>
      </div>`;

export const fields = FIELDS.map(field).join("");
