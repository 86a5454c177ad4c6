module top(input clk, output led);
  reg [23:0] n = 0;
  always @(posedge clk) n <= n + 1;
  assign led = n[23];
endmodule
