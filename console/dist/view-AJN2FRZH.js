import{g as l}from"./chunk-BPLF33RW.js";function a(){return l("div",{class:"body","data-testid":"call",children:"Call"})}export{a as default};
